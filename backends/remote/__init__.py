"""Models that a server runs: vLLM, llama-server, SGLang and whatever else speaks the OpenAI API."""
