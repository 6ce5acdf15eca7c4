//! OAuth for the Model Context Protocol's client side, without I/O.

#![forbid(unsafe_code)]

pub mod evidence;
pub mod http;
pub mod scope;
pub mod secret;
pub mod www_authenticate;
