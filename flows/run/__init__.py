"""One run: its launch, its folder, its progress and its report."""
