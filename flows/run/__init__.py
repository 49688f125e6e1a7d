"""One run: its folder, its lock, its progress, its report."""
