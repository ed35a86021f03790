"""Every setting: fields, files, precedence, presets, keys."""
