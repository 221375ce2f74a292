/*
 * The protocol of a fleet: two hosts, their locks, an operator, syncers, a coordinator, and faults.
 *
 * etc/manual/reference/protocol.rst describes the records, the transactions and the invariants, and lists what this model
 * leaves out. test_protocol.py defines the worlds that spin searches (SERVICES, FAULTS, ACTS, SYNCERS, STRATEGY, ...) and the
 * mutations: each removes one rule, and spin has to find the invariant that it breaks.
 *
 * Every atomic sequence is one transaction or one request to ZooKeeper, or one change on the disk of a host. A node has no data
 * version here: `seen_NODE` is the set of processes that have read the node since its last write. A check of the version
 * succeeds for exactly these processes.
 */

#define HOSTS 2
#ifndef SERVICES
#define SERVICES 1
#endif
#ifndef FAULTS
#define FAULTS 0
#endif
#ifndef HOST_FAULTS
#define HOST_FAULTS 1
#endif
#ifndef FAILURES
#define FAILURES 0
#endif
#ifndef ACTS
#define ACTS 0
#endif
#ifndef SYNCERS
#define SYNCERS 0
#endif
#ifndef COORDINATORS
#define COORDINATORS 0
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 3
#endif
#ifndef REBOOTS
#define REBOOTS 0
#endif

/* The bits of processes in `seen_NODE`: hosts have 0 and 1. */
#define OPERATOR 2
#define SYNCER 3      /* and 4 */
#define COORDINATOR 5 /* and 6 */

#define BIT(p) (1 << (p))
#define SAW(node, p) node = node | BIT(p)
#define UNCHANGED(node, p) ((node & BIT(p)) != 0)
#define EVERY ((1 << SERVICES) - 1)

/* /hosts. A fleet that is held (version false) is a stopped fleet to its hosts. */
bool stopped, importing;
byte version = 1;
byte retry;          /* the host of the retry, plus one */
bool retry_used;     /* the retry has succeeded */
bool retry_is_named; /* the retry names the present data version of /hosts */
byte seen_hosts;

/* /zkdeployment/targets: its version (0 while no revision is wholly published) and its sequence; two parts of the tree. */
byte published = 1, last = 1;
byte seen_targets;
byte tree[2] = 1;

/* /zkdeployment/stops: the stops of hosts, and that of the operator. */
byte stops;
byte seen_stops;

/* /zkdeployment/maintenance */
bool maintenance[HOSTS];
byte seen_maintenance;

/* /agent-locks/NAME: the sessions of the contenders. /zkdeployment/busy/NAME: the host of the record, plus one. */
chan queue[SERVICES] = [4] of { byte };
byte work[SERVICES];
bool kept[SERVICES];
byte seen_work[SERVICES];

/* Sessions: those of host h are h and h + HOSTS. */
bool alive[4];
bool abandoned[4]; /* its process is gone, and it will expire */
byte session[HOSTS];
bool registered[HOSTS]; /* in the present session, with its unfinished work kept */

/* The disk and the processes of a host. */
byte had[HOSTS];     /* the recorded version; 0: none */
byte doing[HOSTS];   /* the revision whose scripts have run for the services in `done` */
byte done[HOSTS];
byte failed[HOSTS];  /* the service whose failure is not reported yet, plus one */
bool killed[HOSTS];
byte orphan[HOSTS];  /* the service whose script runs without its agent, plus one */
byte running[SERVICES]; /* the hosts whose scripts run */
bool down[HOSTS];
bool lost[HOSTS]; /* the machine does not come back */
byte reboot[HOSTS];  /* /zkdeployment/reboots/HOST-ID: the service, plus one */
bool expired[HOSTS];

/* /hosts-lock, and the rollout. */
byte syncer_lock; /* the syncer that holds the lock, plus one */
byte lead;        /* the coordinator that leads, plus one */
byte rollout, rollout_revision;
bool rollout_over, paused, pause_wanted;
byte grant[HOSTS]; /* the rollout that granted; 0: no grant */
bool reported[HOSTS]; /* the rollout has the failure of the host */
byte seen_rollout;

/* What the invariants compare with; no process reads it. */
byte ordered; /* the host that an operator lets try again in this stop, plus one */
bool is_judged; /* the rollout has failed */
byte granted[HOSTS]; /* the last rollout that granted the deployment */
byte rebooting[HOSTS]; /* the service for which the machine reboots, plus one */

byte faults = FAULTS, failures = FAILURES, acts = ACTS, reboots = REBOOTS;

#ifdef RETRY_OUTLIVES_ITS_STOP
#define RETRIED(h) (stopped && !importing && retry == (h) + 1 && !retry_used)
#else
#define RETRIED(h) (stopped && !importing && retry == (h) + 1 && !retry_used && retry_is_named)
#endif
#ifdef FAILED_RETRY_CONTINUES
#define IS_STOPPED_FOR(h) stopped
#else
#define IS_STOPPED_FOR(h) (stopped && !RETRIED(h))
#endif
#define RUNS (!stopped && !importing)

/* Each write of /hosts changes its data version; a retry names the version that it was written with. */
inline write_hosts() { seen_hosts = 0; retry_is_named = false }

inline stop_fleet() { stopped = true; retry = 0; ordered = 0; write_hosts() }

inline record_stop(who) { stops = stops | BIT(who); seen_stops = 0; check_stops() }

inline check_stops() { assert(stops == 0 || stopped) }

inline remove_contenders(x) {
    if :: queue[0]??[eval(x)] -> queue[0]??eval(x) :: else fi;
#if SERVICES > 1
    if :: queue[1]??[eval(x)] -> queue[1]??eval(x) :: else fi;
#endif
}

inline expire(x) { alive[x] = false; abandoned[x] = false; remove_contenders(x) }

/* The delay of the lock is over: the script has ended, or its host is back and has had the time to keep its record. */
#define DELAY_IS_OVER(s) ((running[s] & BIT(work[s] - 1)) == 0 || registered[work[s] - 1])

#ifdef NO_LOCK_DELAY
#define RECORD_BLOCKS(s, h) (work[s] != 0 && work[s] != h + 1 && kept[s])
#else
#define RECORD_BLOCKS(s, h) (work[s] != 0 && work[s] != h + 1 && (kept[s] || !DELAY_IS_OVER(s)))
#endif

#define OTHER(x) ((x) ^ HOSTS) /* the other session of a host */

#ifdef NO_STOP_CHECK
#define STAMP_HOLDS(h) true
#else
#define STAMP_HOLDS(h) UNCHANGED(seen_hosts, h)
#endif
#ifdef NO_MAINTENANCE_CHECK
#define MAINTENANCE_HOLDS(h) true
#else
#define MAINTENANCE_HOLDS(h) UNCHANGED(seen_maintenance, h)
#endif
#define NODES_HOLD(h) (STAMP_HOLDS(h) && MAINTENANCE_HOLDS(h))
#ifdef NO_LOCK_CHECK
#define LOCK_HOLDS(s, h, x) true
#else
#define LOCK_HOLDS(s, h, x) (resumed -> kept[s] && work[s] == h + 1 : queue[s]??[eval(x)])
#endif
#ifdef NO_RECORD_CHECK
#define RECORD_HOLDS(s, h) true
#else
#define RECORD_HOLDS(s, h) UNCHANGED(seen_work[s], h)
#endif

/* Whether the rollout permits the host to deploy, and whether it judges the failure of the host. */
#ifdef STRATEGY
#define GRANTED(h) (rollout != 0 && !rollout_over && grant[h] == rollout && rollout_revision == version)
#define JUDGES(h) (RUNS && GRANTED(h))
#else
#define GRANTED(h) true
#define JUDGES(h) false
#endif

/* The invariants of a step that begins, and of its script. */
inline check_begin(h, s, revision) {
    assert(!maintenance[h]);
    assert((RUNS && version == revision) || (stopped && ordered == h + 1));
    assert(tree[0] == revision && tree[1] == revision);
#ifdef STRATEGY
    assert(stopped || (granted[h] == rollout && !is_judged))
#endif
}

inline check_alone(h, s) {
    assert(running[s] == 0);
    assert(rebooting[1 - h] != s + 1)
}

/* Connect again; keep the records of the work that earlier sessions of the host left. */
inline connect(h, x, i, skipped) {
    atomic {
        !alive[OTHER(session[h])]; /* this model has two sessions of a host at most */
        session[h] = OTHER(session[h]); x = session[h]; alive[x] = true; abandoned[x] = false; i = 0
    };
#ifndef WORK_IS_NOT_KEPT
    do
    :: i < SERVICES ->
        atomic { SAW(seen_work[i], h); skipped = (work[i] != h + 1 || kept[i]) };
        atomic {
            if
            :: skipped
#ifdef KEPT_WITHOUT_VERSION
            :: !skipped -> work[i] = h + 1; kept[i] = true; seen_work[i] = 0
#else
            :: !skipped && UNCHANGED(seen_work[i], h) -> kept[i] = true; seen_work[i] = 0
            :: !skipped && !UNCHANGED(seen_work[i], h) /* the next holder has replaced the record */
#endif
            fi;
            i++
        }
    :: i == SERVICES -> break
    od;
#endif
    atomic { registered[h] = alive[x]; i = 0; skipped = false }
}

inline take_record(h, s) { work[s] = h + 1; kept[s] = resumed; seen_work[s] = 0 }

inline remove_record(s) { work[s] = 0; kept[s] = false; seen_work[s] = 0 }

inline release_kept(h) {
    atomic {
        if :: work[0] == h + 1 && kept[0] -> remove_record(0) :: else fi;
#if SERVICES > 1
        if :: work[1] == h + 1 && kept[1] -> remove_record(1) :: else fi
#endif
    }
}

#define IS_WANTED (alive[x] && last == doing[h])

proctype Host(byte h) {
    byte x, s, i, revision;
    bool resumed, retried, skipped, own, ok, begun;

start:
    {
        connect(h, x, i, skipped);
        orphan[h] == 0; /* the agent waits for the script that its predecessor left */
        atomic { i = OTHER(x); remove_contenders(i); i = 0; reboot[h] = 0; expired[h] = false };

cycle:
        if :: !alive[x] -> connect(h, x, i, skipped) :: else fi;
        /* A failure that is not reported yet comes first. */
        if
        :: failed[h] != 0 ->
            atomic { SAW(seen_hosts, h); SAW(seen_stops, h) };
            atomic {
                if
                :: !alive[x]
                :: alive[x] && last != doing[h] -> failed[h] = 0 /* the fleet has another publication by now */
                :: IS_WANTED && JUDGES(h) -> reported[h] = true; seen_rollout = 0; failed[h] = 0
                :: IS_WANTED && !JUDGES(h) && UNCHANGED(seen_hosts, h) && UNCHANGED(seen_stops, h) ->
                    if
                    :: IS_STOPPED_FOR(h)
                    :: else -> stop_fleet()
                    fi;
                    if :: ordered == h + 1 -> ordered = 0 :: else fi;
                    record_stop(h); failed[h] = 0
                :: else
                fi
            };
            if :: failed[h] == 0 && begun -> goto release :: else -> goto cycle fi
        :: else
        fi;

        /* Read the cluster version, with the maintenance of this host. */
#ifdef OWN_MAINTENANCE_READ_FIRST
        own = maintenance[h];
#endif
        atomic {
            SAW(seen_hosts, h); SAW(seen_maintenance, h);
            retried = RETRIED(h); revision = (retried -> published : version); ok = retried || RUNS
        };
#ifndef OWN_MAINTENANCE_READ_FIRST
        own = maintenance[h];
#endif
        if
        :: own || !ok || had[h] == revision ->
            if
            :: own || ok -> /* a host in maintenance, or at the revision, needs no lock */
                release_kept(h)
            :: else
            fi;
            if
            :: ok && !own && retried ->
                atomic {
                    if
                    :: UNCHANGED(seen_hosts, h) ->
#ifndef RETRY_OUTLIVES_ITS_SUCCESS
                        write_hosts(); retry_used = true; retry_is_named = true;
#endif
                        ordered = 0
                    :: else
                    fi
                };
                goto cycle
            :: else
            fi;
end_waiting:
            !UNCHANGED(seen_hosts, h) || !alive[x] || maintenance[h] != own;
            goto cycle
        :: else
        fi;

#ifdef STRATEGY
        if
        :: retried
        :: else ->
end_for_grant:
            if
            :: GRANTED(h) && !reported[h]
            :: !UNCHANGED(seen_hosts, h) || !alive[x] || maintenance[h] -> goto cycle
            fi
        fi;
#endif
        atomic {
            if :: doing[h] != revision -> doing[h] = revision; done[h] = 0 :: else fi;
            had[h] = 0
        };

next:   /* Choose a service whose script has not run for this revision. */
        if
        :: done[h] == EVERY -> goto complete
        :: (done[h] & 1) == 0 -> s = 0
#if SERVICES > 1
        :: (done[h] & 2) == 0 -> s = 1
#endif
        fi;
        /* A lock that is kept for this host needs no contender. */
        atomic { SAW(seen_work[s], h); resumed = (kept[s] && work[s] == h + 1) };
        if
        :: resumed
        :: else ->
enqueue:
            atomic {
                if
                :: !alive[x] -> goto cycle
#ifdef CONTENDERS_ARE_NOT_SOUGHT
                :: alive[x] && nfull(queue[s]) -> queue[s]!x
                :: alive[x] && full(queue[s])
#else
                :: alive[x] && queue[s]??[eval(x)] /* of an attempt whose answer was lost */
                :: alive[x] && !(queue[s]??[eval(x)]) -> queue[s]!x
#endif
                fi;
                if
                :: true
                :: HOST_FAULTS && faults > 0 -> faults--; goto enqueue /* the answer is lost */
                fi
            };
            if
            :: queue[s]?[eval(x)] && !RECORD_BLOCKS(s, h) -> goto begin
            :: else
            fi;
#ifndef WAITING_HOSTS_KEEP_LOCKS
            release_kept(h); /* so that no two hosts wait for each other */
#endif
            if
            :: queue[s]?[eval(x)] && !RECORD_BLOCKS(s, h)
            :: !alive[x] -> goto cycle
            :: !UNCHANGED(seen_hosts, h) || maintenance[h] || !(queue[s]??[eval(x)]) -> goto leave
            fi
        fi;

begin:  /* Check again what has changed, then verify everything in the transaction that records the step. */
        if
        :: !UNCHANGED(seen_hosts, h) || !UNCHANGED(seen_maintenance, h) ->
            atomic {
                SAW(seen_hosts, h); SAW(seen_maintenance, h);
#ifdef RETRY_CONTINUES_WHEN_RESUMED
                ok = (RUNS && version == revision) || (RETRIED(h) && published == revision)
#else
                ok = (retried -> RETRIED(h) && published == revision : RUNS && version == revision)
#endif
            };
            atomic { if :: ok && !maintenance[h] :: else -> goto leave fi }
        :: else
        fi;
#ifdef STRATEGY
        atomic { if :: retried || GRANTED(h) :: else -> goto leave fi };
#endif
        atomic {
            if
            :: !alive[x] || !LOCK_HOLDS(s, h, x) -> goto give_back
            :: alive[x] && LOCK_HOLDS(s, h, x) && !NODES_HOLD(h) -> goto begin
            :: alive[x] && LOCK_HOLDS(s, h, x) && NODES_HOLD(h) && (resumed || work[s] == 0) ->
                check_begin(h, s, revision); begun = true; take_record(h, s)
            :: else -> /* the record of another step exists: replace exactly that record */
                SAW(seen_work[s], h);
                if
                :: kept[s] && work[s] != h + 1 -> goto give_back
                :: else
                fi
            fi
        };
        if
        :: begun
        :: else ->
            atomic {
                if
                :: alive[x] && LOCK_HOLDS(s, h, x) && NODES_HOLD(h) && RECORD_HOLDS(s, h) ->
                    check_begin(h, s, revision); begun = true; take_record(h, s)
                :: else -> goto give_back
                fi
            }
        fi;
        if
        :: true
        :: atomic { HOST_FAULTS && faults > 0 -> faults--; goto give_back } /* the answer is lost: the script does not start */
        fi;

        /* The lease of the lock, which the host measures without a request, is shorter than a session. */
        atomic {
            if
#ifndef NO_LEASE
            :: !alive[x] -> goto give_back
#endif
            :: else ->
                check_alone(h, s); running[s] = running[s] | BIT(h)
            fi
        };
script:
        if
        :: !alive[x] -> connect(h, x, i, skipped); goto script
        :: atomic { running[s] = running[s] & ~BIT(h); done[h] = done[h] | BIT(s) }
        :: atomic { failures > 0 -> failures--; running[s] = running[s] & ~BIT(h); failed[h] = s + 1 }
        :: atomic { /* the reboot is recorded and the lock is kept, in one transaction, before the command */
            reboots > 0 && alive[x] && work[s] == h + 1 -> reboots--; running[s] = running[s] & ~BIT(h);
#ifndef REBOOT_IS_NOT_RECORDED
            reboot[h] = s + 1;
#endif
#ifndef REBOOT_GIVES_ITS_LOCK_AWAY
            kept[s] = true; seen_work[s] = 0;
#endif
            down[h] = true; rebooting[h] = s + 1; killed[h] = true }
        fi;
#ifndef LOCK_RELEASED_BEFORE_THE_RECORD
        if :: failed[h] != 0 -> goto cycle :: else fi;
#endif

release:
        atomic {
            assert(failed[h] == 0); /* a failure is on record before its lock is free */
            if
            :: alive[x] -> remove_contenders(x); begun = false; resumed = false;
                if :: work[s] == h + 1 -> remove_record(s) :: else fi
            :: else
            fi
        };
        if :: begun -> connect(h, x, i, skipped); goto release :: else fi;
        if :: UNCHANGED(seen_hosts, h) && (done[h] & BIT(s)) != 0 -> goto next :: else -> goto cycle fi;

give_back: /* The lock or the answer is lost. The record of this attempt is removed, unless it is kept for the host. */
        atomic {
            if
            :: alive[x] && !resumed && work[s] == h + 1 && !kept[s] -> remove_record(s)
            :: else
            fi
        };
leave:
        atomic {
            if :: alive[x] -> remove_contenders(x) :: else fi;
            resumed = false; begun = false
        };
        goto cycle;

complete:
        had[h] = revision;
        goto cycle
    } unless {
        atomic {
            killed[h] -> killed[h] = false; registered[h] = false; abandoned[session[h]] = alive[session[h]];
            if
            :: (running[0] & BIT(h)) != 0 -> orphan[h] = 1
#if SERVICES > 1
            :: (running[1] & BIT(h)) != 0 -> orphan[h] = 2
#endif
            :: else
            fi;
            x = 0; s = 0; i = 0; revision = 0;
            resumed = false; retried = false; skipped = false; own = false; ok = false; begun = false
        };
end_down:
        !down[h];
        goto start
    }
}

#define MAY_EXPIRE(h) (HOST_FAULTS && faults > 0 && alive[session[h]] && !abandoned[session[h]])
#define MAY_BE_KILLED(h) (HOST_FAULTS && faults > 0 && !down[h] && !killed[h])
#define IS_DUE(h) (down[h] && !killed[h] && reboot[h] != 0 && !expired[h])

inline kill(h) {
    faults--; killed[h] = true;
    if
    :: true
    :: failed[h] == 0 -> had[h] = 0; doing[h] = 0; done[h] = 0 /* its run directory is lost, too */
    fi
}

inline end_orphan(h) { running[orphan[h] - 1] = running[orphan[h] - 1] & ~BIT(h); orphan[h] = 0 }

/* Anybody who waits for a reboot finds that its deadline has passed. */
inline expire_reboot(h) {
    expired[h] = true;
#ifndef EXPIRED_REBOOT_STOPS_NOTHING
    stop_fleet(); record_stop(h)
#endif
}

/* Faults, which cost from a budget, and everything that happens by itself. */
proctype World() {
    byte x;
end_world:
    do
    :: atomic { MAY_EXPIRE(0) -> faults--; x = session[0]; expire(x); x = 0; registered[0] = false }
    :: atomic { MAY_EXPIRE(1) -> faults--; x = session[1]; expire(x); x = 0; registered[1] = false }
    :: atomic { MAY_BE_KILLED(0) -> kill(0) }
    :: atomic { MAY_BE_KILLED(1) -> kill(1) }
    :: atomic { abandoned[0] -> expire(0) }
    :: atomic { abandoned[1] -> expire(1) }
    :: atomic { abandoned[2] -> expire(2) }
    :: atomic { abandoned[3] -> expire(3) }
    :: atomic { orphan[0] != 0 -> end_orphan(0) }
    :: atomic { orphan[1] != 0 -> end_orphan(1) }
#if SYNCERS
    :: atomic { faults > 0 && syncer_lock != 0 -> faults--; syncer_lock = 0 }
#endif
#if COORDINATORS
    :: atomic { faults > 0 && lead != 0 -> faults--; lead = 0 }
#endif
#if REBOOTS
    :: atomic { down[0] && !killed[0] && !lost[0] -> down[0] = false; rebooting[0] = 0 }
    :: atomic { down[1] && !killed[1] && !lost[1] -> down[1] = false; rebooting[1] = 0 }
    :: atomic { down[0] && !killed[0] && !lost[0] && faults > 0 -> faults--; lost[0] = true; rebooting[0] = 0 }
    :: atomic { down[1] && !killed[1] && !lost[1] && faults > 0 -> faults--; lost[1] = true; rebooting[1] = 0 }
    :: atomic { IS_DUE(0) -> expire_reboot(0) }
    :: atomic { IS_DUE(1) -> expire_reboot(1) }
    /* Operators release the locks of machines that do not come back. */
    :: atomic { lost[0] && expired[0] && work[0] == 1 -> remove_record(0) }
    :: atomic { lost[1] && expired[1] && work[0] == 2 -> remove_record(0) }
#endif
    od
}

#if ACTS
proctype Operator() {
    byte h, known;
    bool ok;
end_operator:
    do
    :: acts == 0 -> break
#ifdef WITH_STOPS
    :: acts > 0 -> acts--; /* stop */
stop:
        atomic { SAW(seen_hosts, OPERATOR); SAW(seen_stops, OPERATOR) };
        atomic {
            if
            :: UNCHANGED(seen_hosts, OPERATOR) && UNCHANGED(seen_stops, OPERATOR) -> stop_fleet(); record_stop(OPERATOR)
            :: else -> goto stop
            fi
        }
    :: acts > 0 -> acts--; /* resume */
resume:
        atomic { SAW(seen_hosts, OPERATOR); SAW(seen_targets, OPERATOR); ok = stopped && published != 0 && !importing };
        atomic { SAW(seen_stops, OPERATOR); known = stops };
        atomic {
            if
            :: !ok
#ifdef RESUME_FORGETS_STOPS_UNSEEN
            :: ok && UNCHANGED(seen_hosts, OPERATOR) && UNCHANGED(seen_targets, OPERATOR) ->
#else
            :: ok && UNCHANGED(seen_hosts, OPERATOR) && UNCHANGED(seen_targets, OPERATOR) && UNCHANGED(seen_stops, OPERATOR) ->
#endif
                stopped = false; version = published; retry = 0; ordered = 0; write_hosts();
                stops = stops & ~known; seen_stops = 0; check_stops()
            :: else -> goto resume
            fi;
            known = 0; ok = false
        }
#endif
#ifdef WITH_RETRIES
    :: acts > 0 -> atomic { acts--; if :: h = 0 :: h = 1 fi }; /* retry */
order:
        atomic { SAW(seen_stops, OPERATOR); ok = ((stops & BIT(h)) != 0 || reported[h]) && (stops & BIT(OPERATOR)) == 0 };
        atomic {
            SAW(seen_hosts, OPERATOR); SAW(seen_targets, OPERATOR);
            ok = ok && stopped && published != 0 && !importing && !maintenance[h]
        };
        atomic {
            if
            :: !ok
            :: ok && UNCHANGED(seen_hosts, OPERATOR) && UNCHANGED(seen_targets, OPERATOR) && UNCHANGED(seen_stops, OPERATOR) ->
                write_hosts(); retry = h + 1; retry_used = false; retry_is_named = true; ordered = h + 1
            :: else -> goto order
            fi;
            h = 0; ok = false
        }
    /* A person writes the version null by hand, and keeps all other properties. */
    :: atomic { acts > 0 && stopped -> acts--; write_hosts(); ordered = 0 }
#endif
#ifdef WITH_MAINTENANCE
    :: acts > 0 -> /* begin or end a maintenance */
        atomic {
            acts--;
            if :: h = 0 :: h = 1 fi;
            if
            :: maintenance[h] -> maintenance[h] = false
            :: else -> maintenance[h] = true;
#ifndef MAINTENANCE_WITHOUT_PARENT
                seen_maintenance = 0
#endif
            fi;
            h = 0
        }
#endif
#ifdef WITH_RELEASES
    /* Release the lock of a host that has not begun to work under it. */
    :: atomic { acts > 0 && work[0] == 0 && nempty(queue[0]) -> acts--; queue[0]?h; h = 0 }
#endif
#ifdef WITH_PAUSES
    :: atomic { acts > 0 -> acts--; pause_wanted = true; seen_rollout = 0 }
#endif
    od
}
#endif

#if SYNCERS
#ifdef CHUNKS_ARE_NOT_CHECKED
#define MAY_WRITE(me) true
#else
#define MAY_WRITE(me) (syncer_lock == me + 1 && UNCHANGED(seen_hosts, me))
#endif

inline complete_publication(me) {
    stopped = false; importing = false; version = me - 1; published = me - 1; last = me - 1; seen_targets = 0;
    retry = 0; ordered = 0; write_hosts(); stops = 0; seen_stops = 0; syncer_lock = 0
}

/* Publishes one revision: syncer 3 revision 2, syncer 4 revision 3. */
proctype Syncer(byte me) {
    byte part;
queue_for_lock:
    atomic { syncer_lock == 0 -> syncer_lock = me + 1 };
    atomic { SAW(seen_hosts, me); SAW(seen_targets, me); SAW(seen_stops, me) };
    if
    :: true -> atomic { /* everything fits into one transaction */
        if
        :: syncer_lock == me + 1 && UNCHANGED(seen_hosts, me) && UNCHANGED(seen_targets, me) && UNCHANGED(seen_stops, me) ->
            tree[0] = me - 1; tree[1] = me - 1; complete_publication(me); goto end_published
        :: else
        fi }
    :: true -> atomic {
        if
        :: syncer_lock == me + 1 && UNCHANGED(seen_hosts, me) && UNCHANGED(seen_targets, me) ->
            published = 0; seen_targets = 0; write_hosts(); retry = 0; ordered = 0;
#ifndef NO_MARK
            importing = true;
#endif
            SAW(seen_hosts, me); SAW(seen_targets, me)
        :: else -> goto again
        fi };
        part = 0;
        do
        :: part < 2 -> atomic { if :: MAY_WRITE(me) -> tree[part] = me - 1; part++ :: else -> goto again fi }
        :: part == 2 -> break
        od;
        atomic {
            if
            :: syncer_lock == me + 1 && UNCHANGED(seen_hosts, me) && UNCHANGED(seen_targets, me) && UNCHANGED(seen_stops, me) ->
                complete_publication(me); goto end_published
            :: else
            fi }
    fi;
again:
    atomic { if :: syncer_lock == me + 1 -> syncer_lock = 0 :: else fi; part = 0 };
    goto queue_for_lock;
end_published:
    skip
}
#endif

#if COORDINATORS
#ifdef LEAD_IS_NOT_CHECKED
#define LEADS(me) true
#else
#define LEADS(me) (lead == me + 1)
#endif
#define MAY_GRANT(h) (rollout != 0 && !rollout_over && !paused && grant[h] != rollout)

inline write_grant(h) { assert(!paused); grant[h] = rollout; granted[h] = rollout }

/* Leads the rollout of the published revision: host 0, then host 1. */
proctype Coordinator(byte me) {
    byte h;
end_following:
    atomic { lead == 0 -> lead = me + 1 };
end_leading:
    do
    :: lead != me + 1 -> goto end_following
    :: atomic {
        RUNS && published == version && rollout < ATTEMPTS && (rollout == 0 || rollout_over || rollout_revision != version) ->
            SAW(seen_targets, me); SAW(seen_rollout, me) };
        atomic {
            if
            :: LEADS(me) && UNCHANGED(seen_targets, me) && UNCHANGED(seen_rollout, me) ->
                rollout++; rollout_revision = published; rollout_over = false; is_judged = false; paused = false; pause_wanted = false;
                reported[0] = false; reported[1] = false; seen_rollout = 0
            :: else
            fi }
    :: atomic { lead == me + 1 && MAY_GRANT(0) -> h = 0 };
        atomic { if :: LEADS(me) -> write_grant(0) :: else fi }
    :: atomic { lead == me + 1 && MAY_GRANT(1) && had[0] == rollout_revision -> h = rollout };
        atomic { if :: LEADS(me) && h == rollout -> write_grant(1) :: else fi; h = 0 }
    :: atomic { lead == me + 1 && pause_wanted && !paused -> paused = true; grant[0] = 0; grant[1] = 0; seen_rollout = 0 }
    :: atomic { lead == me + 1 && !rollout_over && rollout != 0 && (reported[0] || reported[1]) -> SAW(seen_hosts, me); SAW(seen_stops, me); SAW(seen_rollout, me) };
        atomic {
            if
            :: LEADS(me) && UNCHANGED(seen_hosts, me) && UNCHANGED(seen_stops, me) && UNCHANGED(seen_rollout, me) ->
#ifndef FAILED_ROLLOUT_STILL_GRANTS
                rollout_over = true;
#endif
                is_judged = true; seen_rollout = 0;
                if :: last == rollout_revision -> stop_fleet(); record_stop(COORDINATOR) :: else fi
            :: else
            fi }
    od
}
#endif

#define RESTS(h) (lost[h] && stopped || maintenance[h] || stopped || had[h] == version || paused || (rollout == ATTEMPTS && rollout_over))

/* When nothing can happen any more, each host has the version, or the reason is on record. */
proctype Rest() {
end_rest:
    timeout -> assert(RESTS(0) && RESTS(1))
}

init {
    atomic {
        session[0] = HOSTS; session[1] = HOSTS + 1; /* the first session of host h is h */
        run Host(0); run Host(1); run World(); run Rest();
#if ACTS
        run Operator();
#endif
#if SYNCERS
        run Syncer(SYNCER);
#endif
#if SYNCERS > 1
        run Syncer(SYNCER + 1);
#endif
#if COORDINATORS
        run Coordinator(COORDINATOR);
#endif
#if COORDINATORS > 1
        run Coordinator(COORDINATOR + 1)
#endif
    }
}
