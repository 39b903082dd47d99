"""Datasets and sites in buckets of S3."""
