//! Properties that need the whole content of a file: its lines, whether it is UTF-8, and the hash of its bytes. Runs in the
//! worker. Trusts nothing in the file. Keeps no content.

use crate::{
    jail::{Call, JailFile, ReadControl},
    text::{Etag, Tally, charset::Decoder, tally::Totals, utf16::Endian},
    wire::{Result, types::read_file::Charset},
};

/// Takes the bytes of a file from its beginning on, chunk by chunk.
#[derive(Debug, Default)]
pub(super) struct Survey {
    bytes: u64,
    etag: Etag,
    tally: Tally,
    decoder: Decoder,
}

/// The result after the last chunk.
#[derive(Debug)]
pub(super) struct Surveyed {
    /// `bytes` counts the bytes of the file; the other totals are about its text.
    pub(super) totals: Totals,
    pub(super) etag: String,
}

impl Survey {
    /// Returns the text of the chunk.
    pub(super) fn push<'a>(&'a mut self, chunk: &'a [u8]) -> &'a [u8] {
        self.bytes += chunk.len() as u64;
        self.etag.push(chunk);
        let text = self.decoder.push(chunk);
        self.tally.push(text);
        text
    }

    /// To be called once, after the last chunk. Returns the rest of the text.
    pub(super) fn end(&mut self) -> &[u8] {
        let text = self.decoder.finish();
        self.tally.push(text);
        text
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    pub(super) fn finish(self) -> Surveyed {
        let mut totals = self.tally.finish();
        totals.bytes = self.bytes;
        totals.is_utf8 &= self.decoder.endian().is_none();
        Surveyed { totals, etag: self.etag.finish() }
    }
}

/// Reads the whole file, however large it is.
pub(super) fn survey(file: &JailFile, call: &Call) -> Result<Surveyed> {
    read_to(file, call, u64::MAX).map(|(surveyed, _)| surveyed)
}

/// Like `survey`, for a file that the caller did not ask to read whole. `None` if it has more than `most` bytes, whatever
/// size it reports, because some files have no end.
pub(super) fn survey_within(file: &JailFile, call: &Call, most: u64) -> Result<Option<Surveyed>> {
    read_to(file, call, most.saturating_add(1)).map(|(surveyed, ended)| ended.then_some(surveyed))
}

fn read_to(file: &JailFile, call: &Call, end: u64) -> Result<(Surveyed, bool)> {
    let mut survey = Survey::default();
    let ended = file.read_chunks(call, 0, end, |chunk| {
        survey.push(chunk);
        Ok(ReadControl::Continue)
    })?;
    survey.end();
    Ok((survey.finish(), ended))
}

/// The encoding as the wire names it. None for a file that is not decoded.
pub(super) fn charset(decoder: &Decoder) -> Option<Charset> {
    decoder.endian().map(|endian| match endian {
        Endian::Little => Charset::Utf16Le,
        Endian::Big => Charset::Utf16Be,
    })
}
