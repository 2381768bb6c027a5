"""The same governed write through placet and through its neighbours, one after the other on one slowed disk."""
