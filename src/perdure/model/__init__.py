"""What exists: frozen values without I/O. Every other layer may import them; they import only `errors` and `limits`."""
