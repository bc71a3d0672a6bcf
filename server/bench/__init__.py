"""The load benchmark: a client of the public interface of any OpenAI-compatible server."""
