"""The engine: a separate process that owns models and answers. `EngineClient` talks to it from any other process."""
