"""Sessions of ReFrame and the Parquet dataset that is exported from them."""
