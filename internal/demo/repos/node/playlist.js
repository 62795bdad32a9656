'use strict';

// Total length of the tracks in seconds.
function total(tracks) {
  return tracks.reduce((sum, t) => sum + t.seconds, 0);
}

// The longest prefix of the tracks that fits on a disc of so many seconds.
function fit(tracks, seconds) {
  let used = 0;
  let count = 0;
  while (count < tracks.length && used + tracks[count].seconds < seconds) {
    used += tracks[count].seconds;
    count += 1;
  }
  return tracks.slice(0, count);
}

// Seconds as m:ss.
function clock(seconds) {
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
}

module.exports = { total, fit, clock };
