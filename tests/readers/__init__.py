"""The real readers that a test suite has no room for: each in a virtual environment of its own."""
