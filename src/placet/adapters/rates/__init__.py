"""Rate limits: of this process alone, or shared by replicas in a Redis or Valkey. Both count in fixed windows."""
