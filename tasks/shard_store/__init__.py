"""A shard's checkpoints: manifests, audio blobs, and a view of them under the current settings."""
