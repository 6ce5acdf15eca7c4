//! Properties that hold for any bytes, any chunks, any order.

mod framing;
mod in_flight;
mod messages;
