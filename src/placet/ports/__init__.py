"""What the engine needs from outside, in its own words: small protocols, each verb a whole step."""
