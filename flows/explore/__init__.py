"""The explorer: a page on loopback to search a corpus, listen to it and correct it."""
