"""Carry announcements: signed webhooks, messages for Slack, mail."""
