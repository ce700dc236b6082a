"""What `funcnet port` reports: the error that ends a port, and the register of the lines that it could not port."""

from funcnet.porting.errors.port_error import PortError, place_of

__all__ = ["PortError", "place_of"]
