"""Models behind HTTP, with OpenAI's schemas: how servers are asked, and how hard."""
