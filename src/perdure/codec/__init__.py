"""Bytes and values: the lossless value codec, entries and their frames, digests, upcasting, redaction and sealing."""
