"""Erasure of keys: requests, their steps, the search of all files, certificates, and their verification."""
