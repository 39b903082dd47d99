"""What the tests share: tables (catalogue, transports, dialects) and small pure modules around them."""
