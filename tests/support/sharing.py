"""The modules of tests that share what takes long to start, so that one process of the run has them all."""

OF_PAGE = ("tests/hostile/test_web_page.py", "tests/dagster_resources/test_resources_page.py", "tests/test_deploy.py")
"""Those that use `page`."""
OF_BROWSER = ("tests/assets/test_browser.py", "tests/assets/pages/test_browser_reports.py")
"""Those that look at the demonstration in a browser."""
