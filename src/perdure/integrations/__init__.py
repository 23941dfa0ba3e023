"""perdure under other people's agents. Each module is for one framework, and needs that installed."""
