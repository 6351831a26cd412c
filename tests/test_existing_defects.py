"""The defects of the system that this one replaces, numbered as in its review, and the tests that show each gone."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

TESTS = Path(__file__).parent

TABLE: Final = """\
# Wrong results, lost data
1 over FTP, archives of edit and delete counted as those of add
    sources/test_servers.py::test_every_protocol_shows_the_same_files_under_the_same_actions_and_ignores_what_is_no_archive
    session/test_sessions_on_servers.py::test_a_session_ends_the_same
2 the action had no effect: edits and deletions appended
    session/test_session_data.py::test_add_edit_and_delete_mean_what_they_say
3 a second source was never asked
    session/test_sessions_on_servers.py::test_the_second_source_delivers_what_the_first_broke_off
4 sources of equal rating replaced each other, and the producer's own came last
    tracker/test_download_plan.py::test_the_producer_s_own_sources_come_first_then_few_failures_then_speed_then_age
    session/test_submission_retries.py::test_sources_are_tried_in_order_and_in_rounds
5 a failed download was never tried again
    session/test_submission_retries.py::test_retries_are_counted_across_sessions
6 an archive seen before its centre was registered failed for good
    tracker/test_listings.py::test_a_centre_registered_later_makes_its_archives_acceptable
7 another content under a known name was not noticed
    session/test_archives_being_uploaded.py::test_what_changed_before_its_data_were_uploaded_is_taken_anew
    session/test_changed_after_loading.py::test_the_centre_is_told_of_each_change_once_and_what_to_do
8 a truncated transfer was a success, at the final path
    session/test_archive_transfer.py::test_too_few_or_too_many_bytes_are_no_success_and_nothing_stays
9 an archive without a document stayed in work for ever
    archives/test_archives.py::test_an_archive_is_refused_whole_for
    session/test_submission_processing.py::test_an_archive_that_is_refused_is_tried_nowhere_else
10 files in folders and with odd endings vanished without a record
    archives/test_archives.py::test_every_entry_is_accounted_for
    archives/test_archives.py::test_documents_lie_in_folders_and_archives_two_levels_deep
11 of two documents with one name, the second overwrote the first
    archives/test_archives.py::test_an_archive_is_refused_whole_for
12 every session that checked a document was recorded as failed
    session/test_sessions.py::test_a_session_is_recorded_with_its_times_and_tasks
13 some findings did not say by which rule
    rules/test_judging.py::test_every_finding_has_a_rule_by_a_constraint_of_the_database
14 a break in the XML threw away the schema errors before it
    documents/test_validation.py::test_schema_errors_before_the_end_of_well_formedness_are_kept
15 an archive showed the state of its furthest document
    tracker/test_progress.py::test_a_parent_without_failure_is_as_far_as_its_slowest_child
    tracker/test_progress.py::test_a_parent_shows_the_earliest_failing_phase_of_its_children
# Stuck, crash or hang
16 the second session of a periodic run ended the process
    session/test_submission_retries.py::test_retries_are_counted_across_sessions
    cli/test_daemon.py::test_pages_daemon_and_command_line_work_at_once
17 periodic sessions ran without a lock, and the lock was that of a directory
    cli/test_crawl.py::test_another_active_session_ends_with_3
    session/test_sessions.py::test_of_many_that_open_at_once_one_is_let_in
18 what a killed session had begun was never taken up
    session/test_crash_recovery.py::test_a_killed_session_is_continued_with_nothing_lost_and_nothing_twice
    session/test_session_data_faults.py::test_sessions_killed_one_after_the_other_come_to_the_same_end_with_nothing_lost_and_nothing_twice
19 the numbers of phases contradicted their order, so that states went back
    tracker/test_progress.py::test_the_higher_of_two_states_counts
20 two sources that listed one new archive ended a crawl without a word
    session/test_source_crawls.py::test_crawlers_that_see_the_same_new_zips_at_once_lose_none
    session/test_groups_at_once.py::test_what_two_sessions_must_not_do_at_once_they_do_one_after_the_other
21 a refused connection or login became another error
    sources/test_faults.py::test_what_goes_wrong_before_anything_was_opened_is_that_source_s_own_failure
    sources/test_faults.py::test_a_wrong_password_is_told_with_who_was_refused_and_not_repeated
22 a source that could not be listed left no trace and counted as empty
    session/test_source_crawls.py::test_a_source_that_keeps_failing_is_left_alone_and_everybody_is_told
    cli/test_crawl.py::test_a_source_that_is_down_ends_with_4_and_the_others_are_crawled
23 a stalled transfer held up the session for ever
    sources/test_faults.py::test_a_connection_that_goes_silent
    sources/test_faults.py::test_ftp
    session/test_sessions_on_servers.py::test_a_source_that_stalls_again_and_again_is_left_alone_until_the_next_session
# What is falsified goes through a relay, which sees passive data connections alone.
24 FTP opened active data connections only
    session/test_sessions_on_servers.py::test_what_plain_ftp_falsified_on_the_way_is_fetched_again_before_the_copy_is_called_bad
25 a lost database held up everything for days, then ended the process
    session/test_session_ends.py::test_a_database_that_is_killed_and_started_again_costs_only_time
    session/test_session_data.py::test_when_the_qc_database_is_away_the_session_fails_and_the_next_one_goes_on
26 options that did not fit together were accepted
    settings/test_settings.py::test_a_wrong_setting_is_refused_at_the_start_with_its_name_and_what_it_must_be
    assets/test_session_in_dagster.py::test_a_session_does_not_begin_while_its_workers_lack_a_setting
27 archives stayed open, and bombs were extracted
    hostile/test_archives_bounds.py::test_odd_archives_give_their_documents_and_all_their_names_are_legible
    hostile/test_archives_bounds.py::test_hostile_archives_are_refused_with_a_legible_reason_and_leave_nothing
28 each archive had pools of threads of its own
    session/test_submission_processing.py::test_many_zips_come_through_in_bounded_threads
# Security
29 no host key was verified
    sources/test_ssh.py::test_a_server_whose_key_was_never_accepted
    sources/test_ssh.py::test_a_server_that_shows_another_key_gets_no_password
30 external entities were read, and shown in errors
    documents/test_validation.py::test_a_document_type_declaration_is_refused_and_no_file_read
31 patterns matched a part of a name
    test_naming.py::test_a_name_conforms_as_a_whole_or_not_at_all
    test_naming.py::test_a_document_name_conforms_as_a_whole_or_not_at_all
32 passwords were readable in the database, and FTP had no TLS
    sources/test_parts.py::test_a_password_stands_there_or_in_a_variable_or_file
    dagster/test_secrets_left_behind.py::test_no_secret_is_in_anything_that_a_session_leaves_behind
    sources/test_tls_trust.py::test_transfers_must_show_the_certificate_of_the_login
33 two accounts on one host shared the first login
    sources/test_servers.py::test_two_centres_on_one_host_see_their_own_files_by_their_keys
# Details and waste
34 retries were counted within a run only
    session/test_submission_retries.py::test_retries_are_counted_across_sessions
35 HTTP was a protocol that nothing supported
    sources/test_http.py::test_archives_are_listed_with_size_time_and_checksum
    sources/test_http.py::test_requests_are_conditional_on_the_time_that_was_listed
36 dates that no calendar has became others
    test_naming.py::test_a_date_that_is_not_in_the_calendar_is_refused_and_named
37 base path and action were joined without a slash, or as a null
    sources/test_servers.py::test_the_root_of_an_ftp_server
    sources/test_servers.py::test_a_directory_below_it
38 what a source listed no more stayed hosted for ever
    tracker/test_listings.py::test_an_archive_that_went_is_gone_once_and_back_when_it_is_listed_again
    tracker/test_download_plan.py::test_sources_that_are_not_available_or_active_or_do_not_host_it_any_more_are_left_out
39 each known archive cost several statements in each crawl
    test_benchmarks_known.py::test_the_statements_of_a_session_with_nothing_new_do_not_depend_on_how_much_is_known
40 each document had processes of its own, and its schema was compiled for it
    session/test_submission_processing.py::test_schemas_are_compiled_for_each_worker_and_not_for_each_document
41 failures after validation left no reason
    assets/metadata/test_documents.py::test_what_was_not_uploaded_is_said_with_the_reason_and_who_acts
    assets/test_data_session.py::test_a_failed_check_names_document_line_rule_and_message_the_worst_first
    operations/test_consistency.py::test_what_is_broken_is_said
42 downloads came in any order, and threads tried to claim the same ones
    tracker/test_download_plan.py::test_the_newest_comes_first_by_what_the_names_say
    session/test_downloads.py::test_a_thread_takes_what_is_kept_for_it_then_what_waits_then_the_end_of_what_is_kept_for_another
43 the report by e-mail was a line of the log
    notify/test_session_report.py::test_the_report_is_sent_by_e_mail_and_refused_recipients_are_named
44 the phases qc and zip_md5, the status cancelled and the MD5 of an archive were never set
    assets/sync/test_changes.py::test_quality_control_that_is_done_is_shown
    session/test_bad_copies.py::test_other_sources_are_tried_before_the_centre_is_blamed
    cli/test_data_changes.py::test_a_submission_is_withdrawn_wholly_and_comes_back_by_a_retry
    session/test_submission_processing.py::test_it_is_taken_once_and_recorded_of_good_archives_and_bad
"""
"""Each defect, and below it the tests that show it gone."""
DEFECTS: Final = {
    int(number): tests.split() for number, tests in re.findall(r"^(\d+) .*\n((?:    .*\n)+)", TABLE, re.MULTILINE)
}


@cache
def names_in(module: str) -> frozenset[str]:
    """The test functions and methods of a module."""
    nodes = ast.walk(ast.parse((TESTS / module).read_text("utf-8")))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef))


def test_the_defects_are_numbered_without_a_gap() -> None:
    assert sorted(DEFECTS) == list(range(1, 45))


def test_the_tests_of_each_defect_are_there_and_part_of_every_whole_run(request: pytest.FixtureRequest) -> None:
    named = {tuple(test.split("::")) for tests in DEFECTS.values() for test in tests}
    assert sorted((module, name) for module, name in named if name not in names_in(module)) == []
    of_run = request.config
    if of_run.args == of_run.getini("testpaths") and not of_run.option.keyword and not of_run.option.markexpr:
        parts = (item.nodeid.removeprefix("tests/").partition("[")[0].split("::") for item in request.session.items)
        assert sorted(named - {(module, names[-1]) for module, *names in parts}) == []
