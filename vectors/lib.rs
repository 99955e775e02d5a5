//! Golden vectors of positional encodings as files; `README.md` describes them.

/// The folder of the files.
pub const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

/// One line for each tensor: its file, first byte, dtype, shape and more.
pub const INDEX: &str = include_str!("index.txt");
