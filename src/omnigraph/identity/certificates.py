"""TLS by certificate files, for servers without a proxy before them."""

from __future__ import annotations

import ssl

from omnigraph.errors import BadRequestError


def tls_context(cert: str, key: str) -> ssl.SSLContext:
    """Return what connections are encrypted with. Raises `BadRequestError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_certificate(context, cert, key)
    return context


def load_certificate(context: ssl.SSLContext, cert: str, key: str) -> None:
    """Read the certificate, again if it was renewed. Raises `BadRequestError`.

    Connections that were made before keep the one they have.
    """
    # A file that does not fit must not take the place of one that does.
    for target in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), context):
        try:
            target.load_cert_chain(cert, key, password=_refuse)
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            raise BadRequestError(
                f"cannot use the certificate {cert} with the key {key}: {reason}",
                hint="both are PEM files, the key without a password",
            ) from error


def _refuse() -> str:
    raise ValueError("the key has a password")
