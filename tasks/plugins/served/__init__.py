"""Models behind HTTP, with OpenAI's schemas: requests, retries, and their pace."""
