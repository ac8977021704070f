#!/bin/sh
# Serve a folder as an S3 store whose one bucket, a folder in it, is there from the beginning.
# The root account is in ROOT_ACCESS_KEY and ROOT_SECRET_KEY.
set -eu
mkdir -p "$S3_FOLDER/$S3_BUCKET"
exec versitygw --port "$S3_LISTEN" --health /health --quiet posix "$S3_FOLDER"
