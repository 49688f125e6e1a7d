"""What became of each utterance, in groups of work shards that are kept from run to run."""
