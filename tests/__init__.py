"""Tests; a package, so that spawned processes can import the test plug-ins."""
