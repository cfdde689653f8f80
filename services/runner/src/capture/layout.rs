/// Where the bytes of a stream are kept: the first `head` in one file, of the rest the last `tail` in another that is
/// written round and round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Bytes kept from the beginning.
    pub(crate) head: u64,
    /// Bytes kept from the end.
    pub(crate) tail: u64,
}

/// A part of a file, or what is nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// In the first file from `at`.
    Head {
        /// Position.
        at: u64,
        /// Bytes.
        len: u64,
    },
    /// In the second file from `at`.
    Ring {
        /// Position.
        at: u64,
        /// Bytes.
        len: u64,
    },
    /// Not kept.
    Dropped {
        /// Bytes.
        len: u64,
    },
}

impl Layout {
    /// A quarter of `limit` is for the end: a long log is read for how it began and for how it failed.
    pub(crate) fn within(limit: u64) -> Self {
        let tail = limit / 4;
        Self { head: limit - tail, tail }
    }

    /// Offset of the first byte that the tail holds when `total` bytes were written.
    pub(crate) fn tail_start(self, total: u64) -> u64 {
        total.saturating_sub(self.tail).max(self.head.min(total))
    }

    /// Bytes that are not kept when `total` were written.
    pub(crate) fn dropped(self, total: u64) -> u64 {
        self.tail_start(total) - self.head.min(total)
    }

    /// Where the writer puts the next of `len` bytes that it has when `total` were written; at most all of them.
    pub(crate) fn place(self, total: u64, len: u64) -> Part {
        if total < self.head {
            Part::Head { at: total, len: len.min(self.head - total) }
        } else {
            let at = (total - self.head) % self.tail;
            Part::Ring { at, len: len.min(self.tail - at) }
        }
    }

    /// Where a reader finds the bytes from `offset` on, at most `len` of them, when `total` were written and the files are
    /// still apart.
    pub(crate) fn find(self, offset: u64, len: u64, total: u64) -> Part {
        let tail_start = self.tail_start(total);
        if offset < self.head {
            return Part::Head { at: offset, len: len.min(self.head.min(total) - offset) };
        }
        if offset < tail_start {
            return Part::Dropped { len: tail_start - offset };
        }
        let at = (offset - self.head) % self.tail;
        Part::Ring { at, len: len.min(self.tail - at).min(total - offset) }
    }

    /// The same when both parts are in one file.
    pub(crate) fn find_joined(self, offset: u64, len: u64, total: u64) -> Part {
        let tail_start = self.tail_start(total);
        let head = self.head.min(total);
        if offset < head {
            return Part::Head { at: offset, len: len.min(head - offset) };
        }
        if offset < tail_start {
            return Part::Dropped { len: tail_start - offset };
        }
        Part::Head { at: head + (offset - tail_start), len: len.min(total - offset) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Layout = Layout { head: 10, tail: 4 };

    #[test]
    fn nothing_is_dropped_up_to_the_limit_and_the_middle_beyond_it() {
        for (total, tail_start, dropped) in [(0, 0, 0), (9, 9, 0), (10, 10, 0), (14, 10, 0), (15, 11, 1), (100, 96, 86)]
        {
            assert_eq!(SMALL.tail_start(total), tail_start, "total {total}");
            assert_eq!(SMALL.dropped(total), dropped, "total {total}");
        }
    }

    #[test]
    fn a_model_of_both_files_agrees_with_every_answer() {
        for total in 0..40_u64 {
            let (mut head, mut ring) = (vec![u64::MAX; 10], vec![u64::MAX; 4]);
            let mut written = 0;
            while written < total {
                let (file, at, len) = match SMALL.place(written, total - written) {
                    Part::Head { at, len } => (&mut head, at, len),
                    Part::Ring { at, len } => (&mut ring, at, len),
                    Part::Dropped { .. } => unreachable!("the writer places everything"),
                };
                for step in 0..len {
                    file[usize::try_from(at + step).expect("small")] = written + step;
                }
                written += len;
            }
            let joined: Vec<u64> = (0..total.min(10)).chain(SMALL.tail_start(total)..total).collect();
            for offset in 0..total {
                let apart = match SMALL.find(offset, 1, total) {
                    Part::Head { at, len: 1 } => Some(head[usize::try_from(at).expect("small")]),
                    Part::Ring { at, len: 1 } => Some(ring[usize::try_from(at).expect("small")]),
                    Part::Dropped { len } => {
                        assert_eq!(offset + len, SMALL.tail_start(total));
                        None
                    }
                    other => panic!("{other:?}"),
                };
                assert_eq!(apart.unwrap_or(offset), offset, "total {total}");
                match SMALL.find_joined(offset, 1, total) {
                    Part::Head { at, len: 1 } => {
                        assert_eq!(joined[usize::try_from(at).expect("small")], offset, "total {total}");
                    }
                    other => assert_eq!(other, SMALL.find(offset, 1, total), "total {total}"),
                }
            }
        }
    }
}
