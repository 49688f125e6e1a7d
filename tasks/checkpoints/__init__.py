"""What is stored of a shard: manifests, audio blobs, and their view under today's settings."""
