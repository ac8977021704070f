"""A release, performed and verified except for the upload: ``make release``."""
