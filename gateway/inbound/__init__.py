"""From a platform's message to a row of the inbox: admission, pairing, background messages."""
