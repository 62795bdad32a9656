package ledger

// migrations[n] brings a file from version n to n+1. What is here was released:
// a change is one more element.
var migrations = []string{
	`CREATE TABLE jobs (
		name     TEXT    PRIMARY KEY,
		document TEXT    NOT NULL,    -- schedule.Encode
		revision INTEGER NOT NULL,
		paused   INTEGER NOT NULL,    -- 0 or 1
		created  INTEGER NOT NULL,    -- milliseconds since 1970, as all times here
		seen     INTEGER NOT NULL     -- every instant up to this one was decided
	) STRICT, WITHOUT ROWID;
	CREATE TABLE fires (
		id      INTEGER PRIMARY KEY AUTOINCREMENT,
		job     TEXT    NOT NULL,     -- a job that was removed keeps its history
		manual  INTEGER NOT NULL,     -- 0 or 1
		instant INTEGER NOT NULL,
		made    INTEGER NOT NULL,     -- 0 or 1
		after   INTEGER NOT NULL,     -- it does not begin before
		attempt INTEGER NOT NULL,     -- attempts that were begun
		state   TEXT    NOT NULL,
		code    TEXT    NOT NULL,     -- of the reason
		detail  TEXT    NOT NULL,
		decided INTEGER NOT NULL
	) STRICT;
	CREATE UNIQUE INDEX fires_name ON fires (job, manual, instant) WHERE state <> 'skipped';
	CREATE INDEX fires_job ON fires (job, id);
	CREATE INDEX fires_waiting ON fires (job) WHERE state = 'waiting';
	CREATE TABLE runs (
		id            INTEGER PRIMARY KEY AUTOINCREMENT,
		fire          INTEGER NOT NULL REFERENCES fires (id),
		job           TEXT    NOT NULL,
		attempt       INTEGER NOT NULL,
		revision      INTEGER NOT NULL,
		started       INTEGER NOT NULL, -- written before anything is spawned
		ended         INTEGER,          -- NULL while it runs
		spawner_pid   INTEGER NOT NULL,
		spawner_start INTEGER NOT NULL, -- clock ticks after boot
		spawner_boot  TEXT    NOT NULL,
		child_pid     INTEGER NOT NULL DEFAULT 0,
		child_start   INTEGER NOT NULL DEFAULT 0,
		child_boot    TEXT    NOT NULL DEFAULT '',
		places        INTEGER NOT NULL,
		outcome       TEXT    NOT NULL DEFAULT '',
		status        INTEGER NOT NULL DEFAULT -1,
		reason        TEXT    NOT NULL DEFAULT '',
		record        TEXT    NOT NULL DEFAULT ''
	) STRICT;
	CREATE INDEX runs_job ON runs (job, id);
	CREATE INDEX runs_open ON runs (job) WHERE ended IS NULL;`,

	// Budgets: what a run may use, what the month keeps for it, what it used.
	`ALTER TABLE runs ADD COLUMN allowed_usd     INTEGER NOT NULL DEFAULT 0; -- millionths of a dollar
	ALTER TABLE runs ADD COLUMN allowed_tokens  INTEGER NOT NULL DEFAULT 0;
	ALTER TABLE runs ADD COLUMN allowed_wall    INTEGER NOT NULL DEFAULT 0; -- milliseconds
	ALTER TABLE runs ADD COLUMN reserved_usd    INTEGER NOT NULL DEFAULT 0;
	ALTER TABLE runs ADD COLUMN reserved_tokens INTEGER NOT NULL DEFAULT 0;
	ALTER TABLE runs ADD COLUMN reserved_wall   INTEGER NOT NULL DEFAULT 0;
	ALTER TABLE runs ADD COLUMN used_usd        INTEGER NOT NULL DEFAULT 0;
	ALTER TABLE runs ADD COLUMN used_tokens     INTEGER NOT NULL DEFAULT 0;
	ALTER TABLE runs ADD COLUMN used_wall       INTEGER NOT NULL DEFAULT 0;
	ALTER TABLE runs ADD COLUMN reported        INTEGER NOT NULL DEFAULT 0;
	UPDATE runs SET used_wall = ended - started WHERE ended > started;
	CREATE INDEX runs_month ON runs (job, started);`,

	// Skipped fires that stand for many, and a clock that was set back.
	`ALTER TABLE fires ADD COLUMN through INTEGER NOT NULL DEFAULT 0; -- the last instant that it stands for
	ALTER TABLE fires ADD COLUMN count   INTEGER NOT NULL DEFAULT 1;
	UPDATE fires SET through = instant;
	ALTER TABLE jobs ADD COLUMN top INTEGER NOT NULL DEFAULT 0; -- the latest instant that ever was decided
	UPDATE jobs SET top = seen;`,

	// What happened since a time, of all jobs.
	`CREATE INDEX runs_started ON runs (started);
	CREATE INDEX fires_decided ON fires (decided);`,
}

// schema is the version that this program writes, in user_version.
var schema = len(migrations)
