"""What the tests share: tables (catalogue, transports, launchers) and small pure modules."""
