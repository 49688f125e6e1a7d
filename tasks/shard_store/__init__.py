"""A shard's checkpoints: manifests, audio blobs, and how they look under today's settings."""
