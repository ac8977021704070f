"""The only functions that parse files and texts of others, each within limits.

A file in the folder of a table, a mirror, or a source is written by anybody who may write there. A
few kilobytes can describe terabytes, or work without an end. So the libraries that parse them are
called here only (ruff's rule TID251 names their functions), with limits for the bytes that they read,
for those that they decompress, for the number and depth of values, and for the work in all.

Limits of memory grow with the file: the memory held at once is limited, not the described content.
"""
