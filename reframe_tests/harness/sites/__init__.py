"""What a site defines: systems, references, and which tests are selected on them."""
