"""The facts of each utterance, in shard batches that are kept from run to run, and its outcome."""
