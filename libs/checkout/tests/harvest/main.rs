//! Taking work out of clones, with a real git and a real box.

mod bed;
mod hostile;
mod integrate;
mod round_trip;
mod work;
