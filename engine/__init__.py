"""The engine: a process of its own that owns models and answers; `EngineClient` talks to it from any other process."""
