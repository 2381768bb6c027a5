"""Logs and metrics of placet itself: what operators read, never what people, models or tools said."""
