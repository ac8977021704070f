"""The version, where dbt expects it."""

version = "0.1.0"
