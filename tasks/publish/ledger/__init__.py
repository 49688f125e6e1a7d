"""The ledger of a version, in parts that stay from version to version."""
