"""The engine: batches sequences through the model. Knows nothing of HTTP, prompts or tools."""
