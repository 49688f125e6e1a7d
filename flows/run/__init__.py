"""One run: its launch, its folder, its progress and its report."""

SETTINGS = "settings.json"  # in the folder of every run
SUMMARY = "summary.json"  # in that of a run that has ended well
