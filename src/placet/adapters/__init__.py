"""What we call: stores, transports, keys, clocks, telemetry. Each adapter knows one library or system."""
