"""Carries calls to HTTP services that an OpenAPI document describes."""
